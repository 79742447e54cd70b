"""The one integral, in the order of reading.

integrator (the verb) · accuracy (how exactly, and whether it was reached) · block (examples and their segments) ·
refinement, or fixed_steps · division (what is known of pieces) · result (what was measured, in numbers and sentences).
Below them: pieces (rules and quadrature) and weightings. Beside them: running, the integral as it grows.
"""
