"""The page and the JSON API: `neurogame serve`.

`schema` (what goes in and comes out) → `engine` (the one owner of the model: a queue and a thread; `grouping` says what
shares a forward pass) → `app` (routes), around it `access` (token, host), `guard` (limits and headers), `watch` (`logs`
and `metrics`) → `connections`, `server` (a socket, signals). `errors` has one line for each. `static/` is the page:
plain JavaScript, nothing from the net. Needs `pip install 'neurogame[serve]'`.
"""
