package evidence

import "reflect"

// ofNetwork reads errors of the shape of net.Error. Temporary is deprecated,
// but part of the contract of the Cloud Storage clients: true counts, false
// does not.
func ofNetwork(err error) finding {
	timeout, hasTimeout := err.(timeouter)
	temporary, hasTemporary := err.(temporary)
	switch {
	case hasTimeout && timeout.Timeout(), hasTemporary && temporary.Temporary():
		return weak.says(Retryable)
	case isType(err, "net", "DNSError"):
		if missing := field(err, "IsNotFound"); missing.Kind() == reflect.Bool && missing.Bool() {
			return specific.says(Permanent)
		}
	case isType(err, "internal/poll", "errNetClosing"): // net.ErrClosed
		return weak.says(Retryable)
	}
	return 0
}

// wasConnected reports whether err is of a connection that was up. When a
// router then says that the peer cannot be reached, the request may have been
// sent before.
func wasConnected(err error) bool {
	if !isType(err, "net", "OpError") {
		return false
	}
	op := field(err, "Op")
	return op.Kind() == reflect.String && op.String() != "dial" && op.String() != "proxyconnect"
}

// field returns a field of the struct that err points to. reflect's FieldByName
// would do the same, and add 8 KiB to every program.
func field(err error, name string) reflect.Value {
	s := reflect.ValueOf(err).Elem()
	if !s.IsValid() { // a pointer to nothing
		return s
	}
	t := s.Type()
	for i := range t.NumField() {
		if t.Field(i).Name == name {
			return s.Field(i)
		}
	}
	return reflect.Value{}
}

// isType reports whether err is of the named type, or a pointer to it. It goes
// by name, because to import the package of the type would make every program
// that retries carry it.
func isType(err error, pkg, name string) bool {
	ofPkg, ofName := nameOf(err)
	return ofName == name && ofPkg == pkg
}
