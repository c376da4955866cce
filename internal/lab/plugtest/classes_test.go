//go:build nightly

package plugtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/IBM/sarama"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jlaffaye/ftp"
	"github.com/lib/pq"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/openai/openai-go/v3"
	"github.com/quic-go/quic-go"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/slack-go/slack"
	"github.com/stripe/stripe-go/v82"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/net/http2"
	"golang.org/x/oauth2"
	"golang.org/x/time/rate"
	"google.golang.org/api/googleapi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	_ "modernc.org/sqlite"
)

// A row of the corpus: an error, what it is, and its class for Do (DefaultClassifier),
// for HTTP (backoffhttp.Classify) and for SQL (backoffsql.Classify), a letter each:
// Unknown, Not sent, Retryable, Throttled, Permanent.
type row struct {
	name    string
	err     error
	classes string
}

// How the program meets an errno.
func dialed(errno syscall.Errno) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
}

func written(errno syscall.Errno) error {
	return &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", errno)}
}

func get(err error) error { return &url.Error{Op: "Get", URL: "http://a.test", Err: err} }

// The constants of POSIX and what Go makes of them.
var systemRows = []row{
	{"refused", syscall.ECONNREFUSED, "NNN"},
	{"reset", syscall.ECONNRESET, "RRR"},
	{"no such file", syscall.ENOENT, "UPP"},
	{"no right", syscall.EACCES, "UPP"},
	{"dial: refused", dialed(syscall.ECONNREFUSED), "NNN"},
	{"dial: no route to the host", dialed(syscall.EHOSTUNREACH), "NNN"},
	{"dial: no route to the network", dialed(syscall.ENETUNREACH), "NNN"},
	{"dial: host is down", dialed(syscall.EHOSTDOWN), "NNN"},
	{"dial: network is down", dialed(syscall.ENETDOWN), "NNN"},
	{"dial: network dropped", dialed(syscall.ENETRESET), "NNN"},
	{"dial: timed out", dialed(syscall.ETIMEDOUT), "NNN"},
	{"dial: reset", dialed(syscall.ECONNRESET), "NNN"},
	{"dial: aborted", dialed(syscall.ECONNABORTED), "NNN"},
	{"dial: interrupted", dialed(syscall.EINTR), "NNN"},
	{"dial: full backlog", dialed(syscall.EAGAIN), "NNN"},
	{"dial: no file of a socket", dialed(syscall.ENOENT), "NNN"},
	{"dial: no buffer", dialed(syscall.ENOBUFS), "NNN"},
	{"dial: no memory", dialed(syscall.ENOMEM), "NNN"},
	{"dial: no port", dialed(syscall.EADDRNOTAVAIL), "NNN"},
	{"dial: port in use", dialed(syscall.EADDRINUSE), "NNN"},
	{"dial: too many files", dialed(syscall.EMFILE), "NNN"},
	{"dial: too many files of all", dialed(syscall.ENFILE), "NNN"},
	{"dial: firewall", dialed(syscall.EACCES), "PPP"},
	{"dial: not permitted", dialed(syscall.EPERM), "PPP"},
	{"dial: no such family", dialed(syscall.EAFNOSUPPORT), "PPP"},
	{"dial: no such protocol", dialed(syscall.EPROTONOSUPPORT), "PPP"},
	{"dial: wrong type of socket", dialed(syscall.EPROTOTYPE), "PPP"},
	{"dial: invalid", dialed(syscall.EINVAL), "UPP"},
	{"write: reset", written(syscall.ECONNRESET), "RRR"},
	{"write: broken pipe", written(syscall.EPIPE), "RRR"},
	{"write: no route", written(syscall.EHOSTUNREACH), "RRR"},
	{"write: host is down", written(syscall.EHOSTDOWN), "RRR"},
	{"write: no buffer", written(syscall.ENOBUFS), "UPP"},
	{"write: no right", written(syscall.EPERM), "UPP"},
	{"request: dial timed out", get(dialed(syscall.ETIMEDOUT)), "NNN"},
	{"request: dial of a socket without a file", get(dialed(syscall.ENOENT)), "NNN"},
	{"request: write reset", get(written(syscall.ECONNRESET)), "RRR"},
	{"through a proxy: dial timed out", get(&net.OpError{Op: "proxyconnect", Net: "tcp", Err: dialed(syscall.ETIMEDOUT)}), "NNN"},
	{"through a proxy: no route", get(&net.OpError{Op: "proxyconnect", Net: "tcp", Err: dialed(syscall.EHOSTUNREACH)}), "NPN"},
	{"file: not there", &os.PathError{Op: "open", Path: "f", Err: syscall.ENOENT}, "UPP"},
	{"file: deadline", os.ErrDeadlineExceeded, "RRR"},
}

func ofDNS(e net.DNSError) error { e.Name = "db"; return &e }

var libraryRows = []row{
	{"no error", nil, "PPP"},
	{"somebody's error", errors.New("boom"), "UPP"},
	{"own cancellation", context.Canceled, "PPP"},
	{"deadline", context.DeadlineExceeded, "RRR"},
	{"end of input", io.EOF, "UPP"},
	{"end of input in a request", get(io.EOF), "RRR"},
	{"cut off", io.ErrUnexpectedEOF, "RRR"},
	{"closed pipe", io.ErrClosedPipe, "UPP"},
	{"closed connection", net.ErrClosed, "RRR"},
	{"name: not there", ofDNS(net.DNSError{Err: "no such host", IsNotFound: true}), "PPP"},
	{"name: server fails", ofDNS(net.DNSError{Err: "server misbehaving", IsTemporary: true}), "RNR"},
	{"name: timeout", ofDNS(net.DNSError{Err: "i/o timeout", IsTimeout: true}), "RNR"},
	{"dial: name not there", &net.OpError{Op: "dial", Net: "tcp", Err: ofDNS(net.DNSError{Err: "no such host", IsNotFound: true})}, "PPP"},
	{"dial: name server slow", &net.OpError{Op: "dial", Net: "tcp", Err: ofDNS(net.DNSError{Err: "i/o timeout", IsTimeout: true})}, "NNN"},
	{"certificate: authority", x509.UnknownAuthorityError{}, "PPP"},
	{"certificate: name", x509.HostnameError{Certificate: new(x509.Certificate), Host: "a"}, "PPP"},
	{"certificate: expired", x509.CertificateInvalidError{Reason: x509.Expired}, "PPP"},
	{"certificate in a request", get(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), "PPP"},
	{"no TLS", tls.RecordHeaderError{}, "PPP"},
	{"HTTP to HTTPS", http.ErrSchemeMismatch, "PPP"},
	{"closed server", http.ErrServerClosed, "PPP"},
	{"HTTP/2: lost", errors.New("http2: client connection lost"), "URP"},
	{"HTTP/2: refused stream", http2.StreamError{StreamID: 1, Code: http2.ErrCodeRefusedStream}, "UNP"},
	{"HTTP/2: calm", http2.StreamError{StreamID: 1, Code: http2.ErrCodeEnhanceYourCalm}, "UTP"},
	{"HTTP/2: left out by GOAWAY", http2.GoAwayError{LastStreamID: 1, ErrCode: http2.ErrCodeNo}, "URP"},
	{"QUIC: idle", &quic.IdleTimeoutError{}, "RRR"},
	{"QUIC: handshake", &quic.HandshakeTimeoutError{}, "RRR"},
	{"QUIC: stateless reset", &quic.StatelessResetError{}, "RRR"},
	{"QUIC: closed by the application", &quic.ApplicationError{ErrorCode: 1}, "RRR"},
	{"QUIC: stream", &quic.StreamError{StreamID: 1, ErrorCode: 1}, "UPP"},
	{"limiter: in vain", limited(1), "NNN"},
	{"limiter: beyond its burst", limited(3), "PPP"},
}

// limited returns the error of a limiter that has no more than two tokens, and no time.
func limited(n int) error {
	limiter := rate.NewLimiter(rate.Every(time.Hour), 2)
	limiter.AllowN(time.Now(), 2)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return limiter.WaitN(ctx, n)
}

func replied(code int, text string) error { return &textproto.Error{Code: code, Msg: text} }

// Replies of SMTP (RFC 5321, 4.2.3) and FTP (RFC 959, 4.2.2).
var replyRows = []row{
	{"SMTP: shutting down", replied(421, "4.3.2 System not accepting network messages"), "RRR"},
	{"SMTP: mailbox busy", replied(450, "4.2.0 Greylisted"), "RRR"},
	{"SMTP: local error", replied(451, "4.3.0 Temporary lookup failure"), "RRR"},
	{"SMTP: full disk", replied(452, "4.3.1 Insufficient system storage"), "RRR"},
	{"SMTP: login refused for now", replied(454, "4.7.0 Temporary authentication failure"), "RRR"},
	{"SMTP: bad command", replied(500, "unrecognized command"), "PPP"},
	{"SMTP: login refused", replied(535, "5.7.8 authentication failed"), "PPP"},
	{"SMTP: no such mailbox", replied(550, "5.1.1 User unknown"), "PPP"},
	{"SMTP: too large", replied(552, "5.3.4 Message too big"), "PPP"},
	{"SMTP: rejected", replied(554, "5.7.1 Spam"), "PPP"},
	{"SMTP: unexpected", replied(250, "ok"), "UPP"},
	{"SMTP: no reply", textproto.ProtocolError("short response: "), "UPP"},
	{"FTP: busy", &textproto.Error{Code: ftp.StatusFileActionIgnored, Msg: "busy"}, "RRR"},
	{"FTP: no data connection", &textproto.Error{Code: ftp.StatusCanNotOpenDataConnection}, "RRR"},
	{"FTP: not available", &textproto.Error{Code: ftp.StatusNotAvailable}, "RRR"},
	{"FTP: not logged in", &textproto.Error{Code: ftp.StatusNotLoggedIn}, "PPP"},
	{"FTP: no such file", &textproto.Error{Code: ftp.StatusFileUnavailable}, "PPP"},
	{"FTP: bad name", &textproto.Error{Code: ftp.StatusBadFileName}, "PPP"},
}

func token(status int, code string, header ...string) error {
	resp := &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return &oauth2.RetrieveError{Response: resp, ErrorCode: code}
}

// Codes of RFC 6749, 4.1.2.1 and 5.2, and RFC 8628, 3.5.
var grantRows = []row{
	{"OAuth: invalid_request", token(400, "invalid_request"), "PPP"},
	{"OAuth: invalid_client", token(401, "invalid_client"), "PPP"},
	{"OAuth: invalid_grant", token(400, "invalid_grant"), "PPP"},
	{"OAuth: invalid_grant of a server that says 503", token(503, "invalid_grant"), "PPP"},
	{"OAuth: unauthorized_client", token(400, "unauthorized_client"), "PPP"},
	{"OAuth: unsupported_grant_type", token(400, "unsupported_grant_type"), "PPP"},
	{"OAuth: invalid_scope", token(400, "invalid_scope"), "PPP"},
	{"OAuth: access_denied", token(400, "access_denied"), "PPP"},
	{"OAuth: expired_token", token(400, "expired_token"), "PPP"},
	{"OAuth: authorization_pending", token(400, "authorization_pending"), "RRR"},
	{"OAuth: slow_down", token(400, "slow_down"), "TTT"},
	{"OAuth: server_error", token(400, "server_error"), "RRR"},
	{"OAuth: temporarily_unavailable", token(400, "temporarily_unavailable"), "RRR"},
	{"OAuth: temporarily_unavailable, 429", token(429, "temporarily_unavailable"), "TTT"},
	{"OAuth: a code of its own, 400", token(400, "interaction_required"), "PPP"},
	{"OAuth: 500", token(500, ""), "RRR"},
	{"OAuth: 502 of a proxy", token(502, ""), "RRR"},
	{"OAuth: 503", token(503, "", "Retry-After", "7"), "RRR"},
	{"OAuth: 429", token(429, "", "Retry-After", "7"), "TTT"},
	{"OAuth: 408 of a proxy", token(408, ""), "RRR"},
	{"OAuth: 404 of a proxy", token(404, ""), "PPP"},
	{"OAuth: 407 of a proxy", token(407, ""), "PPP"},
	{"OAuth: 503 in a request", get(token(503, "")), "RRR"},
	{"OAuth: invalid_grant in a request", get(token(400, "invalid_grant")), "PPP"},
}

func state(code string) error { return &pgconn.PgError{Code: code, Message: "m"} }

func stateOfPQ(code pq.ErrorCode) error { return &pq.Error{Code: code} }

var databaseRows = []row{
	{"SQL: no rows", sql.ErrNoRows, "PPP"},
	{"SQL: closed database", closedDatabase(), "PPP"},
	{"SQL: closed connection", sql.ErrConnDone, "UPP"},
	{"SQL: ended transaction", sql.ErrTxDone, "UPP"},
	{"SQL: bad connection", driver.ErrBadConn, "UPR"},
	{"pgx: no rows", pgx.ErrNoRows, "PPP"},
	{"pgx: too many rows", pgx.ErrTooManyRows, "UPP"},
	{"pgx: closed transaction", pgx.ErrTxClosed, "UPP"},
	{"pgx: serialization failure", state("40001"), "RRR"},
	{"pgx: deadlock", state("40P01"), "RRR"},
	{"pgx: lock not available", state("55P03"), "RRR"},
	{"pgx: shutdown", state("57P01"), "RRR"},
	{"pgx: starting", state("57P03"), "RRR"},
	{"pgx: connection failure", state("08006"), "RRR"},
	{"pgx: too many connections", state("53300"), "TTT"},
	{"pgx: unique", state("23505"), "PPP"},
	{"pgx: syntax", state("42601"), "PPP"},
	{"pgx: password", state("28P01"), "PPP"},
	{"pgx: no such database", state("3D000"), "PPP"},
	{"pgx: canceled", state("57014"), "UPP"},
	{"pgx: internal", state("XX000"), "UPP"},
	{"pq: serialization failure", stateOfPQ("40001"), "RRR"},
	{"pq: shutdown", stateOfPQ("57P01"), "RRR"},
	{"pq: too many connections", stateOfPQ("53300"), "TTT"},
	{"pq: foreign key", stateOfPQ("23503"), "PPP"},
	{"pq: invalid text", stateOfPQ("22P02"), "PPP"},
	{"MySQL: deadlock", &mysql.MySQLError{Number: 1213}, "UPN"},
	{"MySQL: duplicate entry", &mysql.MySQLError{Number: 1062}, "UPP"},
	{"MySQL: invalid connection", mysql.ErrInvalidConn, "UPR"},
	{"SQLite: no such table", sqlite("SELECT * FROM missing"), "UPP"},
	{"SQLite: unique", sqlite("CREATE TABLE t (k PRIMARY KEY); INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)"), "UPP"},
	{"MongoDB: no documents", mongo.ErrNoDocuments, "PPP"},
	{"MongoDB: disconnected", mongo.ErrClientDisconnected, "PPP"},
	{"MongoDB: duplicate key", mongo.CommandError{Code: 11000}, "PPP"},
	{"MongoDB: not authorized", mongo.CommandError{Code: 13}, "PPP"},
	{"MongoDB: transient", mongo.CommandError{Code: 112, Labels: []string{"TransientTransactionError"}}, "RRR"},
	{"MongoDB: write may be repeated", mongo.CommandError{Code: 91, Labels: []string{"RetryableWriteError"}}, "RRR"},
	{"MongoDB: overloaded", mongo.CommandError{Labels: []string{"SystemOverloadedError"}}, "TTT"},
	{"MongoDB: other", mongo.CommandError{Code: 59}, "UPP"},
	{"Redis: nil", redis.Nil, "PPP"},
	{"Redis: closed", redis.ErrClosed, "PPP"},
	{"Redis: pool timeout", redis.ErrPoolTimeout, "UPP"},
	{"Redis: transaction failed", redis.TxFailedErr, "UPP"},
	{"Redis: wrong type", ofRedis("WRONGTYPE Operation against a key holding the wrong kind of value"), "PPP"},
	{"Redis: no login", ofRedis("NOAUTH Authentication required."), "PPP"},
	{"Redis: loading", ofRedis("LOADING Redis is loading the dataset in memory"), "RRR"},
	{"Redis: other", ofRedis("ERR max number of clients reached"), "UPP"},
}

// Of sessions that are wrong for good, and of reads that went to a replica.
var sessionRows = []row{
	{"pgx: read-only", state("25006"), "RRR"},
	{"pgx: cached plan", &pgconn.PgError{Code: "0A000", Message: "cached plan must not change result type", Routine: "RevalidateCachedQuery"}, "RRR"},
	{"pgx: no such prepared statement", state("26000"), "RRR"},
	{"Redis: replica", ofRedis("READONLY You can't write against a read only replica."), "RRR"},
}

func closedDatabase() error {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	db.Close()
	return db.Ping()
}

func sqlite(statements string) error {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(statements)
	return err
}

// ofRedis returns the error that go-redis makes of a reply.
func ofRedis(text string) error {
	client := redis.NewClient(&redis.Options{Protocol: 2, MaxRetries: -1, DisableIdentity: true, DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			for buffer := make([]byte, 4096); ; {
				if _, err := ours.Read(buffer); err != nil {
					return
				}
				fmt.Fprintf(ours, "-%s\r\n", text)
			}
		}()
		return theirs, nil
	}})
	defer client.Close()
	return client.Get(context.Background(), "k").Err()
}

var brokerRows = []row{
	{"NATS: too large", nats.ErrMaxPayload, "PPP"},
	{"NATS: closed", nats.ErrConnectionClosed, "PPP"},
	{"NATS: draining", nats.ErrConnectionDraining, "PPP"},
	{"NATS: bad subject", nats.ErrBadSubject, "PPP"},
	{"NATS: bad subscription", nats.ErrBadSubscription, "PPP"},
	{"NATS: invalid message", nats.ErrInvalidMsg, "PPP"},
	{"NATS: invalid connection", nats.ErrInvalidConnection, "PPP"},
	{"NATS: login refused", nats.ErrAuthorization, "PPP"},
	{"NATS: timeout", nats.ErrTimeout, "UPP"},
	{"NATS: no responders", nats.ErrNoResponders, "UPP"},
	{"NATS: reconnecting", nats.ErrConnectionReconnecting, "UPP"},
	{"NATS: no servers", nats.ErrNoServers, "UPP"},
	{"NATS: buffer is full", nats.ErrReconnectBufExceeded, "UPP"},
	{"JetStream: no such stream", jetstream.ErrStreamNotFound, "PPP"},
	{"JetStream: not enabled", jetstream.ErrJetStreamNotEnabled, "RRR"},
	{"JetStream: no such key", jetstream.ErrKeyNotFound, "PPP"},
	{"JetStream: no such bucket", jetstream.ErrBucketNotFound, "PPP"},
	{"JetStream: key exists", jetstream.ErrKeyExists, "PPP"},
	{"JetStream: bad name", jetstream.ErrInvalidStreamName, "PPP"},
	{"JetStream: closed", jetstream.ErrConnectionClosed, "PPP"},
	{"JetStream: no messages", jetstream.ErrNoMessages, "UPP"},
	{"JetStream: no heartbeat", jetstream.ErrNoHeartbeat, "UPP"},
	{"JetStream: overloaded", &jetstream.APIError{Code: 503, Description: "no suitable peers"}, "RRR"},
	{"Kafka: closed", kgo.ErrClientClosed, "PPP"},
	{"Kafka: buffer is full", kgo.ErrMaxBuffered, "UPP"},
	{"Kafka: record timeout", kgo.ErrRecordTimeout, "UPP"},
	{"Kafka: not the leader", kerr.NotLeaderForPartition, "UPP"},
	{"Kafka: too large", kerr.MessageTooLarge, "PPP"},
	{"Kafka: no right", kerr.TopicAuthorizationFailed, "PPP"},
	{"Kafka: unknown topic", kerr.UnknownTopicOrPartition, "UPP"},
	{"sarama: closed", sarama.ErrClosedClient, "PPP"},
	{"sarama: no brokers", sarama.ErrOutOfBrokers, "UPP"},
	{"RabbitMQ: closed", amqp.ErrClosed, "UPP"}, // perhaps by the server: the program dials again
	{"RabbitMQ: login refused", amqp.ErrCredentials, "UPP"},
	{"RabbitMQ: forced", &amqp.Error{Code: amqp.ConnectionForced, Reason: "CONNECTION_FORCED", Server: true}, "RRR"},
}

func rpc(c codes.Code) error { return status.Error(c, "m") }

func ofGoogle(code int, reason string) error {
	return &googleapi.Error{Code: code, Message: "m", Errors: []googleapi.ErrorItem{{Reason: reason, Message: "m"}}}
}

func ofAWS(status int, code string) error {
	return &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: &smithy.GenericAPIError{Code: code}}}
}

var things = schema.GroupResource{Resource: "things"}

func ofOpenAI(status int) error {
	return &openai.Error{StatusCode: status, Request: must(http.NewRequest("GET", "http://a.test", nil)),
		Response: &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"7"}}}}
}

var apiRows = []row{
	{"gRPC: unavailable", rpc(codes.Unavailable), "UPP"}, // backoffgrpc.Classify
	{"gRPC: not found", rpc(codes.NotFound), "PPP"},
	{"gRPC: unauthenticated", rpc(codes.Unauthenticated), "PPP"},
	{"gRPC: invalid argument", rpc(codes.InvalidArgument), "PPP"},
	{"gRPC: canceled by the server", rpc(codes.Canceled), "UPP"},
	{"gRPC: closing", grpc.ErrClientConnClosing, "PPP"},
	{"gRPC: stopped server", grpc.ErrServerStopped, "PPP"},
	{"AWS: throttling", ofAWS(400, "ThrottlingException"), "TTT"},
	{"AWS: slow down", ofAWS(503, "SlowDown"), "TTT"},
	{"AWS: request timeout", ofAWS(400, "RequestTimeout"), "RRR"},
	{"AWS: no such bucket", ofAWS(404, "NoSuchBucket"), "PPP"},
	{"AWS: internal", ofAWS(500, "InternalError"), "RRR"},
	{"Azure: busy", &azcore.ResponseError{StatusCode: 503, ErrorCode: "ServerBusy"}, "RRR"},
	{"Azure: too many", &azcore.ResponseError{StatusCode: 429}, "TTT"},
	{"Azure: not found", &azcore.ResponseError{StatusCode: 404}, "PPP"},
	{"Azure: conflict", &azcore.ResponseError{StatusCode: 409}, "UPP"},
	{"Google: backend error", ofGoogle(503, "backendError"), "RRR"},
	{"Google: too many", ofGoogle(429, "rateLimitExceeded"), "TTT"},
	{"Google: too many, 403", ofGoogle(403, "rateLimitExceeded"), "TTT"},
	{"Google: too many of a user, 403", ofGoogle(403, "userRateLimitExceeded"), "TTT"},
	{"Google: quota of a day", ofGoogle(403, "dailyLimitExceeded"), "PPP"},
	{"Google: forbidden", ofGoogle(403, "forbidden"), "PPP"},
	{"Google: not found", ofGoogle(404, "notFound"), "PPP"},
	{"Kubernetes: too many", apierrors.NewTooManyRequests("m", 7), "TTT"},
	{"Kubernetes: timeout", apierrors.NewServerTimeout(things, "get", 7), "RRR"},
	{"Kubernetes: unavailable", apierrors.NewServiceUnavailable("m"), "RRR"},
	{"Kubernetes: conflict", apierrors.NewConflict(things, "n", errors.New("m")), "UPP"}, // read and write again
	{"Kubernetes: not found", apierrors.NewNotFound(things, "n"), "PPP"},
	{"Kubernetes: forbidden", apierrors.NewForbidden(things, "n", errors.New("m")), "PPP"},
	{"slack: too many", &slack.RateLimitedError{RetryAfter: 7 * time.Second}, "TTT"},
	{"slack: 502", slack.StatusCodeError{Code: 502, Status: "502"}, "RRR"},
	{"slack: 404", slack.StatusCodeError{Code: 404, Status: "404"}, "PPP"},
	{"stripe: too many", &stripe.Error{HTTPStatusCode: 429, Type: stripe.ErrorTypeInvalidRequest}, "TTT"},
	{"stripe: 500", &stripe.Error{HTTPStatusCode: 500, Type: stripe.ErrorTypeAPI}, "RRR"},
	{"stripe: card declined", &stripe.Error{HTTPStatusCode: 402, Type: stripe.ErrorTypeCard, Code: stripe.ErrorCodeCardDeclined}, "PPP"},
	{"stripe: conflict of a key", &stripe.Error{HTTPStatusCode: 409, Type: stripe.ErrorTypeIdempotency}, "UPP"},
	{"openai: too many", ofOpenAI(429), "TTT"},
	{"openai: 500", ofOpenAI(500), "RRR"},
	{"openai: bad key", ofOpenAI(401), "PPP"},
	{"openai: conflict", ofOpenAI(409), "UPP"},
}
