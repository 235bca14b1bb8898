#!/bin/sh
echo "https://$1.example.com/health answered 503 Service Unavailable"
exit 1
