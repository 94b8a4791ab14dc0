"""Files of pairs of any size, for every verb that takes one: read in chunks, journalled, resumed, sharded.

`source` reads a file chunk by chunk and remembers which file it was; `parts` keeps what has been written so far;
`tables` makes Parquet and Arrow of it. What is written for a chunk is decided by `prediction` and
`explanation.collection`.
"""
