module github.com/gobackoff/backoff

go 1.22
