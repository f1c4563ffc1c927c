"""HTTP: `guard` lets requests in, `a2a` answers clients, `control` the operator, `sse` writes streams."""
