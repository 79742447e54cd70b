"""The one integral, in the order of reading.

integrator (the verb) · block (examples and their segments) · first_look and refinement, or fixed_steps · sums (what an
example comes to and may err by) · notes (what its status says) · result. Below them: pieces, weightings, rules.
"""
