"""Private tools of every room: shape annotations, argument checks, atomic writes, plain records, optional packages."""
