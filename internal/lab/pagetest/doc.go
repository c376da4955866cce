// Package pagetest holds the page of backoffmetrics against a real browser. Its tests
// need Chromium: chromium on the PATH.
package pagetest
