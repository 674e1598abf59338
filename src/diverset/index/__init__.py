"""Search over embedding sets: the embedded index, and the contract that engines share with it."""
