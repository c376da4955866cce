module example.com/testdata

go 1.22

require github.com/gobackoff/backoff v0.0.0

replace github.com/gobackoff/backoff => ./backoff
