// Package docpage helps to write pages of docs from what was measured: text from
// a template, and pictures.
package docpage

import (
	"regexp"
	"strings"
	"text/template"
)

// Fill returns the text of a template about a page, with its functions.
func Fill(text string, page any, functions template.FuncMap) (string, error) {
	t, err := template.New("page").Funcs(functions).Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, page)
	return b.String(), err
}

// Version returns the version of a module that the text of a go.mod requires, or
// "" if it requires none.
func Version(mod, module string) string {
	if m := regexp.MustCompile(regexp.QuoteMeta(module) + ` (v\S+)`).FindStringSubmatch(mod); module != "" && m != nil {
		return m[1]
	}
	return ""
}
