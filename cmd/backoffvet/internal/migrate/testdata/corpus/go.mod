module corpus

go 1.26.0

require (
	github.com/cenkalti/backoff/v4 v4.3.0
	github.com/cenkalti/backoff/v5 v5.0.3
	github.com/cenkalti/backoff/v7 v7.0.3
	github.com/gobackoff/backoff v0.0.0-00010101000000-000000000000
)

replace github.com/gobackoff/backoff => ../../../../../..
