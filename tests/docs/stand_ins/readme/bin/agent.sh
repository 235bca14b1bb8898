# The first session makes the test pass by editing it; the others fix the code.
# Each is long enough to be killed in the middle.
sleep 1
if [ "$1" = 1 ]; then
  sed -i.old 's/assertFalse(is_leap(1900))/assertTrue(is_leap(1900))/' test_leap.py && rm test_leap.py.old
  echo 'All tests pass.'
  exit
fi
rule='year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)'
printf '"""Which years have a 29th of February?"""\n\n\ndef is_leap(year):\n    return %s\n' "$rule" > leap.py
echo 'Fixed leap.py: a century year is a leap year only if it is divisible by 400.'
