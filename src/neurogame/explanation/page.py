"""The page of an explanation, under the name that it had before `views`."""

from neurogame.explanation.views.page import fragment, page

__all__ = ["fragment", "page"]
