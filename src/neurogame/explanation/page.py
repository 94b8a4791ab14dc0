"""The page of an explanation, under the name that it had before `views`."""

from neurogame.explanation.views.page import fragment, heat_map, page

__all__ = ["fragment", "heat_map", "page"]
