package testdata

import (
	"context"
	"database/sql"
	"net"
	"net/http"
	"os"
	"strconv"
)

func remote(ctx context.Context, db *sql.DB, rows *sql.Rows, rt http.RoundTripper, call func(context.Context) error) {
	call(ctx)
	http.Get("")
	rt.RoundTrip(nil)
	db.Ping()
	db.Query("")
	net.Dial("", "")
	net.LookupHost("")
}

func local(ctx context.Context, db *sql.DB, rows *sql.Rows, value func(context.Context) string) {
	value(ctx)
	db.Close()
	os.Stat("")
	strconv.Atoi("")
	rows.Scan()
	net.ParseCIDR("")
}
