; The maximum over devices of maxima over k is the maximum over k of maxima over devices, for any commutative monoid. A(m): reduction over
; devices of the first m terms of each; T(m): reduction over devices of term m; that A(m + 1) = op(A(m), T(m)) is the first step, by induction over
; devices: U(n), V(n), T(n) reduce op(s, t), s and t over the first n devices.
;; step devices
(declare-sort M 0)
(declare-fun op (M M) M)
(declare-fun s (Int) M)
(declare-fun t (Int) M)
(declare-fun U (Int) M)
(declare-fun V (Int) M)
(declare-fun T (Int) M)
(declare-const n Int)
(assert (= (U (+ n 1)) (op (U n) (op (s n) (t n)))))
(assert (= (V (+ n 1)) (op (V n) (s n))))
(assert (= (T (+ n 1)) (op (T n) (t n))))
(assert (= (op (op (V n) (T n)) (op (s n) (t n))) (op (op (V n) (s n)) (op (T n) (t n)))))
(assert (= (U n) (op (V n) (T n))))
;; goal
(assert (not (= (U (+ n 1)) (op (V (+ n 1)) (T (+ n 1))))))
;; step induction
(declare-sort M 0)
(declare-fun op (M M) M)
(declare-fun A (Int) M)
(declare-fun B (Int) M)
(declare-fun T (Int) M)
(declare-const m Int)
(assert (= (A (+ m 1)) (op (A m) (T m))))
(assert (= (B (+ m 1)) (op (B m) (T m))))
(assert (= (A m) (B m)))
;; goal
(assert (not (= (A (+ m 1)) (B (+ m 1)))))
