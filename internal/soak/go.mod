module github.com/gobackoff/backoff/internal/soak

go 1.26.0

replace github.com/gobackoff/backoff => ../..

require (
	github.com/gobackoff/backoff v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/time v0.16.0 // indirect
)
