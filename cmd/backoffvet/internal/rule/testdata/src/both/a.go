package both

func bad() {}

func _() {
	//backoffvet:ignore calls,cries a reason for both
	bad()

	//backoffvet:ignore calls a reason
	//backoffvet:ignore cries another reason
	bad()
}
