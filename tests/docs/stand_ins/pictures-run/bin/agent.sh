# A first idea that is not the whole truth, then the whole truth.
sleep 0.4
case $(cat leap.py) in
*'% 100'*) rule='year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)' said='Except every fourth one: changed leap.py.' ;;
*) rule='year % 4 == 0 and year % 100 != 0' said='A century is no leap year: changed leap.py.' ;;
esac
printf '"""Which years have a 29th of February?"""\n\n\ndef is_leap(year):\n    return %s\n' "$rule" > leap.py
echo "$said"
