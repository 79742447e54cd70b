"""Shortest routes on a nearest-neighbour graph: neighbours, edge lengths, routes, and the solver over them."""
