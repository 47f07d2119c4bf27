"""What a model costs, apart from training: counts, speed, memory, and the evidence for each."""
