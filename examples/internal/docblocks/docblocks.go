// Package docblocks ties the code in a document to code that is tested.
package docblocks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var fence = regexp.MustCompile("(?ms)^```(go|text)\n(.*?)^```$")

// Check returns an error for each block of the document that is in no Go file
// of the directory. A block of Go must be there as it is, or indented by one or
// two tabs. A block of text must be there as a comment: it is the output of an
// Example. A document without blocks is an error, too.
func Check(document, dir string) error {
	text, err := read(document)
	if err != nil {
		return err
	}
	code, err := sources(dir)
	if err != nil {
		return err
	}
	blocks := fence.FindAllStringSubmatch(text, -1)
	if len(blocks) == 0 {
		return fmt.Errorf("%s has no code", document)
	}
	var missing []error
	for _, block := range blocks {
		if !holds(code, block[1], block[2]) {
			missing = append(missing, fmt.Errorf("%s: in no file of %s:\n%s", document, dir, block[2]))
		}
	}
	return errors.Join(missing...)
}

func holds(code, language, block string) bool {
	if language == "text" {
		block = prefixed(block, "// ")
	}
	return strings.Contains(code, "\n"+block) || strings.Contains(code, "\n"+prefixed(block, "\t")) ||
		strings.Contains(code, "\n"+prefixed(block, "\t\t"))
}

// prefixed returns the text with a prefix before each line, and without spaces
// at the ends of the lines.
func prefixed(text, prefix string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		all.WriteString(strings.TrimRight(prefix+line, " \t\n") + "\n")
	}
	return all.String()
}

// sources returns the text of all Go files in the directory.
func sources(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	var all strings.Builder
	for _, file := range files {
		text, failed := read(file)
		all.WriteString("\n" + text)
		err = errors.Join(err, failed)
	}
	return all.String(), err
}

// read returns the text of a file with Unix line ends.
func read(name string) (string, error) {
	text, err := os.ReadFile(name)
	return strings.ReplaceAll(string(text), "\r\n", "\n"), err
}
