module github.com/gobackoff/backoff/cmd/backoffsim

go 1.26.0

replace github.com/gobackoff/backoff => ../..

require (
	github.com/stretchr/testify v1.12.1
	golang.org/x/image v0.30.0
	golang.org/x/time v0.7.0
	gonum.org/v1/plot v0.17.0
)

require (
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
	google.golang.org/grpc v1.84.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

require (
	codeberg.org/go-fonts/liberation v0.5.0 // indirect
	codeberg.org/go-latex/latex v0.2.0 // indirect
	codeberg.org/go-pdf/fpdf v0.11.1 // indirect
	git.sr.ht/~sbinet/gg v0.7.0 // indirect
	github.com/ajstarks/svgo v0.0.0-20211024235047-1546f124cd8b // indirect
	github.com/gobackoff/backoff v0.0.0
	github.com/gobackoff/backoff/contrib/backoffgrpc v0.0.0
	github.com/golang/freetype v0.0.0-20170609003504-e2365dfdc4a0 // indirect
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/text v0.40.0 // indirect
)

replace github.com/gobackoff/backoff/contrib/backoffgrpc => ../../contrib/backoffgrpc
