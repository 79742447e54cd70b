"""The one integral, in the order of reading.

accuracy (how exactly it is asked for, and what was reached, in numbers and sentences) · integrator (the verb, and
refinement) or fixed_steps · block (examples, their segments, and what is known of pieces) · pieces (rules, quadrature
and weightings). Beside them: running, the integral as it grows.
"""
