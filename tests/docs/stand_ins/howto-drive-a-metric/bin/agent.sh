# Fixes three errors at a time; makes the parser faster, then no faster, then fast enough.
takes() { echo "# Parses a file; takes $1 ms." > src/parse.py; }
if grep -q faster; then
  case $1 in
    3) takes 131; echo 'Cached the tokens.' ;;
    4) takes 128; echo 'Rewrote the loop.' ;;
    *) takes 96; echo 'Read the file only once.' ;;
  esac
else
  sed 1,3d src/errors > new && mv new src/errors
  echo 'Fixed three in src/api.py.'
fi
