// Package migrate holds the code of docs/migrating.md and its pages, of other
// libraries and of this one, and runs them side by side. A file is named after
// a library and its major version, or after it and "here" for what takes its
// place. That of docs/library-authors.md is in here_library_test.go.
package migrate
