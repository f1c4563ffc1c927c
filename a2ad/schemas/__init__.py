"""What comes in, checked once at the edge: A2A parameters (`a2a`, on the readers of `protojson`), JSON (`text`) and
control actions (`control`).
"""
