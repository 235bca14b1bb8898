case $(cat) in
*'handed this task over'*) echo 'Ported the last two modules.' ;;
*) echo 'CONTEXT_HANDOFF: api.py and db.py are ported; cli.py and web.py are left' ;;
esac
