//go:build !go1.27

package backoffhttp

const closeReadsRest = false
