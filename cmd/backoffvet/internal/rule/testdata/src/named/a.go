package named

func bad() {}

func _() {
	bad() // want `^bad is called \(calls\)$`
}
