package main

import (
	"strings"
	"testing"
)

const output = `goos: linux
BenchmarkFail3/minimal-2     	 100	  900 ns/op	  0 B/op	  0 allocs/op
BenchmarkFail3/backoff-2     	 100	 1000 ns/op	  0 B/op	  0 allocs/op
BenchmarkFail3/avast-ctx-2   	 100	 1600 ns/op	744 B/op	  9 allocs/op
BenchmarkFail3/minimal-2     	 100	  800 ns/op	  0 B/op	  0 allocs/op
BenchmarkPermanent/new/minimal  	 100	 20.0 ns/op	  16 B/op	  1 allocs/op
BenchmarkPermanent/new/backoff  	 100	 25.0 ns/op	  64 B/op	  2 allocs/op
PASS
`

const tables = `
Fail3, 2 processors, least of 2
             ns/op  x minimal  x peer           bar  B/op  allocs/op
    minimal    800       1.00    0.50                   0          0
    backoff   1000       1.25    0.62  > 1.2 MISSED     0          0
  avast-ctx   1600       2.00    1.00                 744          9

Permanent/new, 1 processor, least of 1
           ns/op  x minimal  x peer            bar  B/op  allocs/op
  minimal     20       1.00                           16          1
  backoff     25       1.25          allocs MISSED    64          2
`

func TestTables(t *testing.T) {
	var got strings.Builder
	if err := run(strings.NewReader(output), &got); err != nil {
		t.Fatal(err)
	}
	if want := output + tables; got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}

func TestFailureIsReported(t *testing.T) {
	for _, in := range []string{"--- FAIL: BenchmarkFail3\n", "FAIL\tpkg [build failed]\n"} {
		if run(strings.NewReader(in), &strings.Builder{}) == nil {
			t.Errorf("no error for %q", in)
		}
	}
}
