module github.com/gobackoff/backoff/cmd/backoffsim

go 1.26.0

replace github.com/gobackoff/backoff => ../..
