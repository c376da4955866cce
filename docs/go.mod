// The documents are a module of their own, so that those who download the library download
// neither them nor their pictures.
module github.com/gobackoff/backoff/docs

go 1.25.0
