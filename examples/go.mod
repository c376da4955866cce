module github.com/gobackoff/backoff/examples

go 1.26.0

require (
	github.com/gobackoff/backoff v0.0.0-00010101000000-000000000000
	golang.org/x/sync v0.7.0
	golang.org/x/time v0.7.0
	gopkg.in/yaml.v3 v3.0.1
)

replace github.com/gobackoff/backoff => ..
