"""How often is the verdict on an explanation wrong? Maps that know nothing, maps that know something, real nets."""
