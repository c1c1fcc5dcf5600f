; A body with h(a + b) = h(a) + h(b) lets a sum over devices pass: the sum of h(x(c)) over n >= 1 devices is h of the sum of x(c).
; X(n): sum of x over the first n devices. Y(n): sum of h(x). By induction from one device on: Y(n) = h(X(n)).
;; step base
(declare-fun h (Real) Real)
(declare-fun x (Int) Real)
(declare-fun X (Int) Real)
(declare-fun Y (Int) Real)
(assert (= (X 1) (x 0)))
(assert (= (Y 1) (h (x 0))))
;; goal
(assert (not (= (Y 1) (h (X 1)))))
;; step induction
(declare-fun h (Real) Real)
(declare-fun x (Int) Real)
(declare-fun X (Int) Real)
(declare-fun Y (Int) Real)
(declare-const n Int)
(assert (>= n 1))
(assert (= (h (+ (X n) (x n))) (+ (h (X n)) (h (x n)))))
(assert (= (X (+ n 1)) (+ (X n) (x n))))
(assert (= (Y (+ n 1)) (+ (Y n) (h (x n)))))
(assert (= (Y n) (h (X n))))
;; goal
(assert (not (= (Y (+ n 1)) (h (X (+ n 1))))))
