"""Things that everyday photographs rarely show, as queries without a relevant image.

They represent what people search for in vain when weak confidence is fitted. Those that a caption
of the images mentions are left out.
"""

ABSENT_THINGS = (
    "clarinet", "oboe", "tuba", "harmonica", "xylophone", "mandolin", "sitar", "metronome",
    "thermometer", "centrifuge", "scalpel", "defibrillator", "prosthesis", "vaccine", "skeleton",
    "avalanche", "hurricane", "meteor", "quicksand", "stalactite", "mangrove", "tundra", "lava",
    "anemone", "barnacle", "shrimp", "swordfish", "piranha", "tadpole", "salamander", "tortoise",
    "platypus", "lemur", "baboon", "tapir", "jackal", "badger", "weasel", "mole", "hamster",
    "chinchilla", "albatross", "puffin", "kingfisher", "woodpecker", "cockatoo", "cricket insect",
    "centipede", "tarantula", "beetle", "moth", "falafel", "gnocchi", "kimchi", "croissant dough",
    "truffle", "caviar", "tax form", "birth certificate", "diploma", "sheet music", "hieroglyphs",
    "manuscript", "scatter plot", "flow chart", "web browser", "error message", "hard drive",
    "oscilloscope", "soldering iron", "zeppelin", "gondola", "catamaran", "icebreaker", "tank",
    "space station", "solar flare", "comet", "galaxy", "refinery", "quarry", "sawmill",
    "lathe", "forklift", "excavator", "crane operator", "torpedo", "cannonball", "acropolis",
    "cathedral nave", "drawbridge", "moat", "minaret", "stupa", "totem pole", "catacomb",
    "mummy", "sarcophagus", "pharmacist", "anesthetist", "fingerprint", "planetarium",
    "observatory", "jury", "guillotine", "loom", "kiln", "chisel", "mahjong", "tarot cards",
    "rubik cube", "jukebox", "telegraph", "astrolabe", "gyroscope", "trilobite", "werewolf",
    "centaur", "vampire", "crown jewels",
    "a nurse taking blood from a patient", "a parachute opening behind a race car",
    "a diver exploring a sunken statue", "lava flowing down the side of a mountain",
    "a judge speaking in a court room", "a page full of handwritten equations",
    "a scientist pouring liquid into a flask", "a tailor measuring a suit",
    "a knight in armor riding into battle", "an icebreaker crossing the arctic sea",
    "a sculptor carving a block of marble", "a conductor in front of an orchestra",
    "a table of figures with a total at the bottom", "seals resting on drifting ice",
    "a view of the milky way", "a caravan crossing high sand dunes",
    "the control room of a power station", "an ant colony seen through glass",
    "a machine filling bottles in a factory", "a medieval village seen from above",
)  # fmt: skip
