package option

type RequestOption interface{}

func WithMaxRetries(int) RequestOption { return nil }
func WithAPIKey(string) RequestOption  { return nil }
