"""The page and the JSON API: `neurogame serve`.

`schema` (what goes in and comes out) → `engine` (the one owner of the model: a queue and a thread) → `guard` (sizes and
headers) → `app` (routes and errors) → `server` (a socket, signals). `static/` is the page: plain JavaScript, nothing
from the net. Needs `pip install 'neurogame[serve]'`.
"""
