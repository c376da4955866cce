package backoffgrpc

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// maxKept is how many bytes of a status, and of a trailer, the error of an attempt keeps. A
// circuit that it opens keeps the error.
const maxKept = 64 << 10

var ofServer = reflect.TypeOf(status.Error(codes.Unknown, ""))

// kept returns err, or if it is the status of a server that is longer than maxKept, an error
// with half of that of its message, and as many of its details as fit.
func kept(err error) error {
	if reflect.TypeOf(err) != ofServer {
		return err
	}
	p := status.Convert(err).Proto()
	if proto.Size(p) <= maxKept {
		return err
	}
	p.Message = strings.ToValidUTF8(p.Message[:min(len(p.Message), maxKept/2)], "")
	left := maxKept - len(p.Message)
	p.Details = slices.DeleteFunc(p.Details, func(d *anypb.Any) bool {
		size := proto.Size(d)
		if size > left {
			return true
		}
		left -= size
		return false
	})
	return status.ErrorProto(p)
}

// keptTrailer returns a trailer, or nil if it is longer than maxKept.
func keptTrailer(trailer metadata.MD) metadata.MD {
	size := 0
	for key, values := range trailer {
		size += len(key) + len(strings.Join(values, ""))
	}
	if size > maxKept {
		return nil
	}
	return trailer
}

// most is how many errors of a tree are read.
const most = 10_000

// finite returns err, or an error with only its text if err wraps more than most
// errors, as one that wraps itself does: the functions of package errors would
// not return.
func finite(err error) error {
	left := most
	var ends func(error) bool
	ends = func(err error) bool {
		left--
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			return left > 0 && ends(e.Unwrap())
		case interface{ Unwrap() []error }:
			return left > 0 && !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !ends(err) })
		}
		return left > 0
	}
	if !ends(err) {
		return errors.New(err.Error())
	}
	return err
}
