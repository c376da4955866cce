module github.com/gobackoff/backoff

go 1.26.0

require (
	github.com/stretchr/testify v1.12.1 // indirect
	golang.org/x/time v0.16.0 // indirect
)
