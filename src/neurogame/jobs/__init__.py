"""Files of pairs of any size, for every verb that takes one: read in chunks, journalled, resumed, dealt out.

`source` reads a file chunk by chunk and remembers which file it was; `parts` keeps what has been written so far;
`tables` makes Parquet and Arrow of it. What is written about a chunk is the business of `prediction` and
`explanation.collection`.
"""
