"""Word lists for the prompt templates; data only."""

from __future__ import annotations


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.replace("\n", " ").split(";") if part.strip())


CHARACTERS = _split("""
a fox; a lonely robot; a young baker; an old sailor; a shy dragon; a curious cat; two sisters;
a retired detective; a gardener; a lighthouse keeper; a small dog named Biscuit; a boy called Tom;
a girl named Mia; an astronaut; a brave mouse; a librarian; a wandering musician; a tired nurse;
a blacksmith; a talking tree; a grandmother; a student who hates maths; a bus driver; a pirate;
a beekeeper; a princess who prefers books; a clumsy wizard; a snowman; a taxi driver in Cairo;
a fisherman; an owl; a painter who is losing her sight; a young chess player; a mail carrier;
a scientist; a football coach; a lost penguin; a chef; a king without a crown; a street magician;
three friends; a shepherd; a violin maker; a time traveller; a mountain climber; a ghost;
a turtle; a tailor; an engineer named Priya; a farmer and his donkey; a dancer; a night watchman;
a zookeeper; a young inventor; a journalist; a wolf raised by sheep; a potter; a shopkeeper;
a cloud; a little spider; a knight who is afraid of horses; an elephant; a firefighter; a spy;
a cartographer; a kind giant; a teenager called Leo; a new teacher; a piano; an old clock;
a squirrel; a doctor in a small village; a surfer; a mermaid; a train conductor; a toy soldier;
a monk; a captain named Elena; a rabbit; a judge; a carpenter; a bear who loves honey
""")
ACTIONS = _split("""
finds a hidden door; loses a precious key; learns to swim; makes an unlikely friend;
discovers an old map; must cross the desert; saves the village; gets lost in the fog;
learns to tell the truth; builds a boat; hears a strange song every night; finds a letter;
plants a magic seed; wins a contest by accident; misses the last train; has to say goodbye;
opens a small restaurant; meets someone from the future; repairs a broken radio; climbs a mountain;
breaks a promise; forgives an old enemy; learns to read; finds a treasure that nobody wants;
is afraid of the dark; wakes up with no memory; travels to the moon; adopts a stray animal;
wants to stop the rain; goes on a journey to find the sea; receives a mysterious package;
solves a mystery; discovers a secret garden; teaches children to paint; survives a storm;
learns the value of patience; fails many times before succeeding; rescues a stranger;
tries to bake the perfect bread; finds courage; gets stuck in an elevator; trades places
with a friend; organises a festival; sees snow for the first time; searches for a lost brother;
learns to share; invents a flying machine; finds a coin that grants wishes; protects the forest;
returns home after many years; hides a secret; falls asleep for a hundred years; learns to dance
""")
PLACES = _split("""
in a small village; by the sea; in a big city; on a distant planet; in an old library;
in the mountains; in a deep forest; on a farm; in a castle; at a railway station; in the desert;
on an island; in a snowy town; at a market; in a museum; under the sea; in a school;
on a ship; in Paris; in a quiet suburb; in ancient Rome; in a space station; at the zoo;
in a bakery; near a volcano; in a hospital; in a haunted house; in a valley; in Tokyo;
in medieval England; at a summer camp; in a theatre; by a river; in a lighthouse; in a garden
""")
TONES = _split("""
funny; sad; heartwarming; mysterious; scary; hopeful; whimsical; dramatic; simple; poetic;
adventurous; quiet; surprising; gentle; suspenseful
""")
TOPICS = _split("""
photosynthesis; gravity; inflation; black holes; vaccines; the water cycle; electricity; DNA;
the French Revolution; the Roman Empire; machine learning; recursion; the stock market;
plate tectonics; climate change; the immune system; supply and demand; evolution; democracy;
the solar system; magnets; volcanoes; rainbows; the internet; blockchain; nuclear energy;
antibiotics; the heart; sleep; memory; muscles; the Industrial Revolution; the Renaissance;
the Cold War; World War I; the Great Depression; Newton's laws of motion; relativity;
quantum computing; tides; earthquakes; hurricanes; solar panels; wind turbines; batteries;
how planes fly; how a refrigerator works; how a car engine works; how computers store data;
compilers; databases; operating systems; encryption; neural networks; sorting algorithms;
HTTP; the difference between RAM and a hard disk; compound interest; mortgages; taxes;
the human brain; digestion; blood pressure; diabetes; vitamins; protein; fermentation;
baking bread; coral reefs; the food chain; biodiversity; deforestation; recycling; composting;
bees and pollination; migration of birds; dinosaurs; fossils; the moon; seasons; time zones;
leap years; prime numbers; fractions; probability; statistics; the Pythagorean theorem; calculus;
music theory; perspective in painting; photography; poetry; Shakespeare; grammar; metaphors;
meditation; stress; habits; motivation; teamwork; leadership; negotiation; public speaking;
the scientific method; atoms; chemical reactions; acids and bases; the periodic table; states of
matter; sound waves; light; lasers; radio; GPS; satellites; rockets; telescopes; microscopes;
bacteria and viruses; cells; genetics; cloning; hibernation; camouflage; the ozone layer; glaciers;
rivers; deserts; rainforests; soil; agriculture; irrigation; trade; money; banks; insurance;
human rights; the constitution; elections; the United Nations; globalization; urbanization;
the history of writing; the printing press; the silk road; ancient Egypt; the Vikings; chess;
yoga; running; swimming; nutrition; allergies; the common cold; teeth; bones; skin; eyesight
""")
AUDIENCES = _split("""
a child; a beginner; a ten-year-old; a high school student; my grandmother; a busy manager;
someone with no background; a college student; a curious friend; a class of teenagers
""")
LANGUAGES = ("Python", "Python", "Python", "Python", "JavaScript", "Java", "C", "C++", "Go", "SQL")
TASKS = _split("""
reverses a string; checks whether a number is prime; computes the factorial of a number;
returns the n-th Fibonacci number; sorts a list of numbers; finds the largest number in a list;
counts the vowels in a string; checks whether a word is a palindrome; merges two sorted lists;
removes duplicates from a list; computes the sum of the digits of a number; finds the second
largest element; converts Celsius to Fahrenheit; counts the words in a text; computes the average
of a list; checks whether two strings are anagrams; performs binary search; reads a file and prints
its lines; flattens a nested list; finds the intersection of two lists; computes the greatest
common divisor; converts a decimal number to binary; generates a random password; validates an
email address; groups words by length; implements a stack; implements a queue; implements a linked
list; counts how often each character occurs; rotates a list by k places; transposes a matrix;
multiplies two matrices; finds all prime numbers below n; computes the power of a number;
checks whether brackets are balanced; capitalises every word; finds the longest word in a sentence;
computes the distance between two points; simulates rolling a dice; prints a multiplication table;
converts a string to title case; finds the median; swaps two variables; sorts a dictionary by value;
draws a triangle of stars; computes simple interest; checks whether a year is a leap year;
reverses the order of words in a sentence; finds missing numbers in a list; implements bubble sort;
implements quicksort; implements merge sort; computes the area of a circle; parses a CSV file;
makes a simple calculator; keeps a to-do list; plays rock, paper, scissors; filters even numbers;
squares every element of a list; finds the most common element; splits a list into chunks;
zips two lists into a dictionary; removes punctuation from a string; counts lines in a file;
computes the mean and the standard deviation; models a bank account; models a shopping cart;
models a rectangle with area and perimeter; converts Roman numerals to integers; encodes a message
with a Caesar cipher; checks whether a list is sorted; finds pairs that add up to a target
""")
ACTIVITIES = _split("""
learn to cook; save money; sleep better; learn Spanish; stay focused while studying; train a puppy;
prepare for a job interview; make new friends; start running; read more books; plan a birthday
party; grow tomatoes; clean the kitchen; write a novel; play the guitar; reduce stress; travel to
Italy; move to a new city; start a small business; build a website; learn to program; lose weight;
quit smoking; improve my writing; be more confident; take better photos; organise my desk;
bake a cake; paint a room; fix a bicycle; learn chess; save water; eat more vegetables; ask for
a raise; give a speech; study for an exam; raise chickens; keep a diary; camp in the woods;
volunteer; learn to draw; speak in public; manage my time; choose a laptop; buy a used car;
teach my kid to read; stop procrastinating; start a garden; plan a wedding; make coffee at home
""")
THINGS = _split("""
fruits; vegetables; breakfast ideas; books for children; names for a cat; names for a bakery;
hobbies; winter activities; healthy snacks; countries in Europe; animals that live in the ocean;
inventions that changed the world; gifts for a friend; ways to save energy; board games; trees;
birds; musical instruments; synonyms for happy; synonyms for big; verbs; team-building exercises;
vegetarian dinners; side jobs for students; questions for an interview; rules for a classroom;
goals for the new year; places to visit in Japan; programming languages; famous scientists;
planets; sports; desserts; kinds of cheese; tools for a garden; exercises for the back;
topics for an essay; movie genres; qualities of a good leader; reasons to learn a language;
advantages of remote work; disadvantages of social media; types of clouds; jobs in a hospital;
things to pack for a beach trip; colours and what they stand for; slogans for a coffee shop;
business ideas; careers in science; ways to say thank you; riddles for kids; fun facts about cats
""")
LETTERS = _split("""
a thank-you letter to a teacher; an email asking for a day off; a letter of complaint about a late
delivery; a cover letter for a job as a waiter; an invitation to a birthday party; an apology to a
friend; an email to a landlord about a broken heater; a letter to the mayor about parks; a farewell
message to a colleague; an email to a professor asking for more time; a recommendation letter for
a student; a letter to my future self; a postcard from the beach; a message to a neighbour about
noise; an email that confirms a meeting; a letter to a pen friend; a resignation letter; a thank-you
note for a gift; a product description for a backpack; a short speech for a wedding; a toast for a
retirement; an announcement of a school play; a newsletter about a charity run; a job advertisement
for a gardener; a review of a restaurant; a review of a book; a press release about a new phone;
an email to a customer who wants a refund; a love letter; a letter to Santa
""")
QUESTIONS = _split("""
What is the capital of {country}?; What language do people speak in {country}?;
What is {country} famous for?; Tell me about the food of {country}.; What is the weather like in
{country}?; What should I see in {country}?; Give a short history of {country}.;
Which animals live in {country}?; How big is {country}?; What is the currency of {country}?
""")
COUNTRIES = _split("""
France; Japan; Brazil; Egypt; Canada; Italy; Kenya; India; Norway; Mexico; Greece; China; Peru;
Australia; Germany; Spain; Turkey; Vietnam; Poland; Morocco; Argentina; Sweden; Thailand; Ireland;
Portugal; South Africa; Iceland; Chile; Nepal; Cuba; Finland; Indonesia; Nigeria; Switzerland
""")
PEOPLE = _split("""
Albert Einstein; Marie Curie; Leonardo da Vinci; Isaac Newton; Cleopatra; Nelson Mandela;
Ada Lovelace; Charles Darwin; Mozart; William Shakespeare; Galileo; Rosa Parks; Frida Kahlo;
Alan Turing; Julius Caesar; Beethoven; Jane Austen; Gandhi; Amelia Earhart; Vincent van Gogh;
Nikola Tesla; Florence Nightingale; Aristotle; Joan of Arc; Neil Armstrong; Mark Twain
""")
MOODS = _split("""
I feel tired today; I had a bad day at work; I am bored; I just got a new job; I cannot sleep;
my dog is sick; I am nervous about tomorrow; I passed my exam; I miss my family; it is raining;
I am learning to cook; my computer is slow; I forgot my friend's birthday; I want to travel;
I am moving next week; I am hungry; I lost my keys; my neighbour is noisy; I want to try a new
hobby; I am planning a party; my plants are dying; I have too much homework; I feel lonely;
I am reading a good book; my phone is broken; I have a headache; I am proud of my son
""")
NAMES = _split("""
Anna; Ben; Clara; David; Emma; Felix; Grace; Henry; Isabel; Jack; Karen; Liam; Maria; Noah; Olivia;
Peter; Rosa; Sam; Tara; Victor; Wendy; Yusuf; Zoe; Amir; Lucy; Mark; Nina; Oscar; Ruth; Simon
""")
OBJECTS = _split("""
an umbrella; a bicycle; a kite; a lantern; a violin; a map; a teapot; a telescope; a red scarf;
a wooden box; a silver ring; a basket of apples; a notebook; a candle; a suitcase; a clay pot;
a blue hat; a pocket watch; a fishing net; a drum; a letter; a photograph; a compass; a blanket
""")
