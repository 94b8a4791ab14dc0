"""The page and the JSON API behind `neurogame serve`; needs `pip install 'neurogame[serve]'`.

server       socket, signals and connections: uvicorn with limits
app          the FastAPI application: routes, errors, the page in `static/`
middleware   token, host names, limits of a request, security headers
telemetry    JSON log, Prometheus metrics, request ids
engine       the thread that owns the model, its queue and its batches
schema       what the API takes and returns
settings     limits and access, validated
"""
