// Real fetches the programs of modules.tsv, runs backoffvet over each, and prints what it finds
// beside the verdict of verdicts.tsv:
//
//	go run ./corpus/real
//	go run ./corpus/real -only dskit
//	go run ./corpus/real -measure
//	go run ./corpus/real -readme
//
// It needs the module proxy, an hour the first time, and 30 GB for what it downloads and builds.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
)

var (
	only    = flag.String("only", "", "run the modules that match this `expression`")
	measure = flag.Bool("measure", false, "measure time and memory beside go vet")
	readme  = flag.Bool("readme", false, "print the table of the README from verdicts.tsv")
	work    = flag.String("work", filepath.Join(os.TempDir(), "backoffvet-corpus"), "keep copies of the modules in this `folder`")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	verdicts, err := readVerdicts("verdicts.tsv")
	if err != nil {
		return err
	}
	if *readme {
		fmt.Print(precision(verdicts))
		return nil
	}
	modules, err := readModules("modules.tsv", regexp.MustCompile(*only))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*work, 0o755); err != nil {
		return err
	}
	return each(modules, func(m module) error {
		if *measure {
			return m.measure()
		}
		return m.judge(verdicts)
	})
}

func each(modules []module, look func(module) error) error {
	for _, m := range modules {
		if err := m.prepare(); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
		if err := look(m); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	return nil
}
