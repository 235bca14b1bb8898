# Long enough to be killed in the middle.
sleep 1
rule='year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)'
printf '"""Which years have a 29th of February?"""\n\n\ndef is_leap(year):\n    return %s\n' "$rule" > leap.py
echo 'Fixed leap.py: a century year is a leap year only if it is divisible by 400.'
