"""Remote agents, and their skills as tools.

`registry` keeps the connections, each a `connection` that keeps its `card` fresh, with the `tokens` beside them. A
`call` goes out through the `client`, which follows it to its end: `net` is HTTP within bounds, `sse` and `envelope`
read what comes, `answer` puts it together, `telling` makes it a text (and `files` of what is none). `tools` is what
models see of it, under `names`, by the `contract`. `text` makes what remotes say fit to be shown.
"""
