"""The energy of the paper, and the two samplers of it: variational inference and Hamiltonian Monte Carlo."""
