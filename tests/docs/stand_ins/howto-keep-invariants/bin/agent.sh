touch mended; rm -f formatted
echo 'The limit was off by one: changed src/parser.py.'
